/* What the programs of libraries have in common: FILE WIDTH QUALITY TIMES OUT are their arguments; each line of output is
   the CPU time of one picture in nanoseconds, the last one is `memory` and the most memory in kilobytes. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

struct blob { void *data; size_t size; };

/* Makes a picture of `source` in a box of `side` pixels; the result may be kept until the next call. */
static struct blob make(struct blob source, const char *kind, int side, int quality);
static void begin(void);

static void fail(const char *what) { fprintf(stderr, "%s\n", what); exit(1); }

static struct blob whole(const char *path) {
    struct blob blob = { NULL, 0 };
    FILE *file = fopen(path, "rb");
    if (!file) fail("cannot read the picture");
    fseek(file, 0, SEEK_END);
    blob.size = (size_t)ftell(file);
    rewind(file);
    blob.data = malloc(blob.size);
    if (!blob.data || fread(blob.data, 1, blob.size, file) != blob.size) fail("cannot read the picture");
    fclose(file);
    return blob;
}

static void fit(double width, double height, int side, int *out_width, int *out_height) {
    double most = width > height ? width : height;
    *out_width = (int)(width * side / most);
    *out_height = (int)(height * side / most);
}

static long long cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int count, char **arguments) {
    char line[256];
    if (count != 6) fail("FILE WIDTH QUALITY TIMES OUT");
    struct blob source = whole(arguments[1]), made = { NULL, 0 };
    const char *kind = strrchr(arguments[1], '.') + 1;
    begin();
    for (int left = atoi(arguments[4]); left > 0; left--) {
        long long before = cpu_ns();
        made = make(source, kind, atoi(arguments[2]), atoi(arguments[3]));
        printf("%lld\n", cpu_ns() - before);
    }
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "VmHWM:", 6)) printf("memory %ld\n", atol(line + 6));
    FILE *out = fopen(arguments[5], "wb");
    if (!out || fwrite(made.data, 1, made.size, out) != made.size || fclose(out)) fail("cannot write the result");
    return 0;
}
