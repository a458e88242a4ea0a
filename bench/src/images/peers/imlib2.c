/* Imlib2: by way of files, as it has no other. */
#include "common.h"
#include <unistd.h>
#include <Imlib2.h>

static char input[] = "/tmp/peer-in-XXXXXX", output[] = "/tmp/peer-out-XXXXXX";

static void gone(void) { unlink(input); unlink(output); }

static void begin(void) {
    imlib_set_cache_size(0);
    close(mkstemp(input));
    close(mkstemp(output));
    atexit(gone);
}

static struct blob make(struct blob source, const char *kind, int side, int quality) {
    static struct blob made;
    Imlib_Load_Error error;
    int width, height;
    FILE *file = fopen(input, "wb");
    free(made.data);
    if (!file || fwrite(source.data, 1, source.size, file) != source.size || fclose(file)) fail("imlib2: no file");
    Imlib_Image image = imlib_load_image_immediately_without_cache(input), small;
    if (!image) fail("imlib2: not decoded");
    imlib_context_set_image(image);
    imlib_context_set_anti_alias(1);
    fit(imlib_image_get_width(), imlib_image_get_height(), side, &width, &height);
    small = imlib_create_cropped_scaled_image(0, 0, imlib_image_get_width(), imlib_image_get_height(), width, height);
    imlib_free_image_and_decache();
    if (!small) fail("imlib2: not resized");
    imlib_context_set_image(small);
    imlib_image_set_format(strcmp(kind, "png") ? "jpeg" : "png");
    imlib_image_attach_data_value("quality", NULL, quality, NULL);
    imlib_save_image_with_error_return(output, &error);
    imlib_free_image_and_decache();
    if (error != IMLIB_LOAD_ERROR_NONE) fail("imlib2: not encoded");
    made = whole(output);
    return made;
}
