/* GD: what nginx's image_filter calls. */
#include "common.h"
#include <gd.h>

static void begin(void) {}

static struct blob make(struct blob source, const char *kind, int side, int quality) {
    static struct blob made;
    gdImagePtr image, small;
    int width, height, size = (int)source.size;
    if (made.data) gdFree(made.data);
    if (!strcmp(kind, "png")) image = gdImageCreateFromPngPtr(size, source.data);
    else if (!strcmp(kind, "webp")) image = gdImageCreateFromWebpPtr(size, source.data);
    else image = gdImageCreateFromJpegPtr(size, source.data);
    if (!image) fail("gd: not decoded");
    fit(gdImageSX(image), gdImageSY(image), side, &width, &height);
    small = gdImageCreateTrueColor(width, height);
    gdImageAlphaBlending(small, 0);
    gdImageSaveAlpha(small, 1);
    gdImageCopyResampled(small, image, 0, 0, 0, 0, width, height, gdImageSX(image), gdImageSY(image));
    gdImageDestroy(image);
    if (!strcmp(kind, "png")) made.data = gdImagePngPtr(small, &size);
    else if (!strcmp(kind, "webp")) made.data = gdImageWebpPtrEx(small, &size, quality);
    else made.data = gdImageJpegPtr(small, &size, quality);
    if (!made.data) fail("gd: not encoded");
    made.size = (size_t)size;
    gdImageDestroy(small);
    return made;
}
