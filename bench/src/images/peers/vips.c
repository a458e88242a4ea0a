/* libvips: what imgproxy and sharp call. */
#include "common.h"
#include <vips/vips.h>

static void begin(void) {
    if (VIPS_INIT("peer")) fail("vips");
    vips_concurrency_set(1);
    vips_cache_set_max(0);
}

static struct blob make(struct blob source, const char *kind, int side, int quality) {
    static struct blob made;
    VipsImage *image = NULL;
    int failed;
    g_free(made.data);
    if (vips_thumbnail_buffer(source.data, source.size, &image, side, "height", side, "size", VIPS_SIZE_DOWN, NULL))
        fail(vips_error_buffer());
    if (!strcmp(kind, "png"))
        failed = vips_pngsave_buffer(image, &made.data, &made.size, "strip", TRUE, NULL);
    else if (!strcmp(kind, "webp"))
        failed = vips_webpsave_buffer(image, &made.data, &made.size, "Q", quality, "strip", TRUE, NULL);
    else
        failed = vips_jpegsave_buffer(image, &made.data, &made.size, "Q", quality, "strip", TRUE,
                                      "subsample_mode", VIPS_FOREIGN_SUBSAMPLE_ON, NULL);
    if (failed) fail(vips_error_buffer());
    g_object_unref(image);
    return made;
}
