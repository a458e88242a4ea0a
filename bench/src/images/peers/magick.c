/* ImageMagick by MagickWand, as ngx_small_light calls it; with HINT defined, with a JPEG decoded at a part of its size. */
#include "common.h"
#include <wand/MagickWand.h>

static void begin(void) {
    MagickWandGenesis();
    MagickSetResourceLimit(ThreadResource, 1);
}

static struct blob make(struct blob source, const char *kind, int side, int quality) {
    static struct blob made;
    MagickWand *wand = NewMagickWand();
    int width, height;
    MagickRelinquishMemory(made.data);
#ifdef HINT
    char size[64];
    snprintf(size, sizeof size, "%dx%d", side, side);
    MagickSetOption(wand, "jpeg:size", size);
#endif
    if (MagickReadImageBlob(wand, source.data, source.size) == MagickFalse) fail("ImageMagick: not decoded");
    fit(MagickGetImageWidth(wand), MagickGetImageHeight(wand), side, &width, &height);
    if (MagickResizeImage(wand, width, height, UndefinedFilter, 1.0) == MagickFalse) fail("ImageMagick: not resized");
    MagickStripImage(wand);
    if (strcmp(kind, "png")) MagickSetImageCompressionQuality(wand, quality);
    made.data = MagickGetImageBlob(wand, &made.size);
    if (!made.data) fail("ImageMagick: not encoded");
    DestroyMagickWand(wand);
    return made;
}
