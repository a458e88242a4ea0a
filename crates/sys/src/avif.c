// AVIF by libavif, as two plain calls: its structures differ from version to version, so only its own headers know them.

#include <avif/avif.h>
#include <string.h>

// What takes bytes: who it is for, which of the kinds below, and the bytes, which are gone after the call.
typedef void (*sink)(void *receiver, int kind, const uint8_t *bytes, size_t size);

enum { FILE_ITSELF = 0, ICC = 1, EXIF = 2, XMP = 3 };

// Decodes a file's primary picture of a known size into `pixels` (red, green, blue and alpha, without gaps). 0 is success,
// else a text for `gannet_avif_reason`.
int gannet_avif_decode(const uint8_t *file, size_t size, uint32_t width, uint32_t height, uint8_t *pixels, sink give,
                       void *receiver)
{
    avifDecoder *decoder = avifDecoderCreate();
    if (decoder == NULL)
        return AVIF_RESULT_UNKNOWN_ERROR;
    uint64_t area = (uint64_t)width * height;
    decoder->maxThreads = 1;
    decoder->imageCountLimit = 1 << 16;
    if (area <= AVIF_DEFAULT_IMAGE_SIZE_LIMIT)
        decoder->imageSizeLimit = (uint32_t)area;
    avifResult result = avifDecoderSetSource(decoder, AVIF_DECODER_SOURCE_PRIMARY_ITEM);
    if (result == AVIF_RESULT_OK)
        result = avifDecoderSetIOMemory(decoder, file, size);
    if (result == AVIF_RESULT_OK)
        result = avifDecoderParse(decoder);
    if (result == AVIF_RESULT_OK)
        result = avifDecoderNextImage(decoder);
    if (result == AVIF_RESULT_OK && (decoder->image->width != width || decoder->image->height != height))
        result = AVIF_RESULT_INVALID_IMAGE_GRID;
    if (result == AVIF_RESULT_OK) {
        avifRGBImage rgb;
        memset(&rgb, 0, sizeof rgb);
        avifRGBImageSetDefaults(&rgb, decoder->image);
        rgb.format = AVIF_RGB_FORMAT_RGBA;
        rgb.depth = 8;
        rgb.pixels = pixels;
        rgb.rowBytes = width * 4;
        result = avifImageYUVToRGB(decoder->image, &rgb);
    }
    if (result == AVIF_RESULT_OK) {
        give(receiver, ICC, decoder->image->icc.data, decoder->image->icc.size);
        give(receiver, EXIF, decoder->image->exif.data, decoder->image->exif.size);
        give(receiver, XMP, decoder->image->xmp.data, decoder->image->xmp.size);
    }
    avifDecoderDestroy(decoder);
    return result;
}

static void encoder_quality(avifEncoder *encoder, int quality)
{
#if AVIF_VERSION >= 1000000
    encoder->quality = encoder->qualityAlpha = quality;
#else
    int quantizer = ((100 - quality) * AVIF_QUANTIZER_WORST_QUALITY + 50) / 100;
    encoder->minQuantizer = encoder->maxQuantizer = quantizer;
    encoder->minQuantizerAlpha = encoder->maxQuantizerAlpha = quantizer;
#endif
}

// Encodes pixels as above; `profiles` are ICC, EXIF and XMP with their sizes, 0 for none.
int gannet_avif_encode(const uint8_t *pixels, uint32_t width, uint32_t height, int opaque, int quality, int speed,
                       const uint8_t *const *profiles, const size_t *sizes, sink give, void *receiver)
{
    // As in JPEG of such qualities, colour has all its samples.
    avifPixelFormat format = quality >= 90 ? AVIF_PIXEL_FORMAT_YUV444 : AVIF_PIXEL_FORMAT_YUV420;
    avifImage *image = avifImageCreate(width, height, 8, format);
    avifEncoder *encoder = avifEncoderCreate();
    avifRWData output = AVIF_DATA_EMPTY;
    avifResult result = AVIF_RESULT_UNKNOWN_ERROR;
    if (image != NULL && encoder != NULL) {
        image->colorPrimaries = AVIF_COLOR_PRIMARIES_BT709;
        image->transferCharacteristics = AVIF_TRANSFER_CHARACTERISTICS_SRGB;
        image->matrixCoefficients = AVIF_MATRIX_COEFFICIENTS_BT601;
        if (sizes[0] > 0)
            avifImageSetProfileICC(image, profiles[0], sizes[0]);
        if (sizes[1] > 0)
            avifImageSetMetadataExif(image, profiles[1], sizes[1]);
        if (sizes[2] > 0)
            avifImageSetMetadataXMP(image, profiles[2], sizes[2]);
        avifRGBImage rgb;
        memset(&rgb, 0, sizeof rgb);
        avifRGBImageSetDefaults(&rgb, image);
        rgb.format = AVIF_RGB_FORMAT_RGBA;
        rgb.depth = 8;
        rgb.ignoreAlpha = opaque ? AVIF_TRUE : AVIF_FALSE;
        rgb.pixels = (uint8_t *)pixels;
        rgb.rowBytes = width * 4;
        result = avifImageRGBToYUV(image, &rgb);
        if (result == AVIF_RESULT_OK) {
            encoder->maxThreads = 1;
            encoder->speed = speed;
            encoder_quality(encoder, quality);
            result = avifEncoderWrite(encoder, image, &output);
        }
        if (result == AVIF_RESULT_OK)
            give(receiver, FILE_ITSELF, output.data, output.size);
    }
    avifRWDataFree(&output);
    if (encoder != NULL)
        avifEncoderDestroy(encoder);
    if (image != NULL)
        avifImageDestroy(image);
    return result;
}

const char *gannet_avif_reason(int result)
{
    return avifResultToString((avifResult)result);
}
