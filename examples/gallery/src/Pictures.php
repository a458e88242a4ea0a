<?php
// Picture files: read whatever visitors send, write JPEG.
declare(strict_types=1);

final class Pictures
{
    /** More pixels than this are not decoded: they would need 100 MB each. */
    public const PIXELS_MAX = 24_000_000;
    /** Kept pictures are no larger than this, in either direction. */
    public const SIDE_MAX = 2000;
    private const QUALITY = 82;
    private const READERS = [
        IMAGETYPE_JPEG => 'imagecreatefromjpeg',
        IMAGETYPE_PNG => 'imagecreatefrompng',
        IMAGETYPE_GIF => 'imagecreatefromgif',
        IMAGETYPE_WEBP => 'imagecreatefromwebp',
    ];

    /**
     * Decodes a file that may hold anything; null if it is no picture, or too large a one. The result is upright,
     * opaque and at most SIDE_MAX wide and high: nothing of the file but its picture is kept.
     */
    public static function read(string $file): ?GdImage
    {
        $size = @getimagesize($file);
        $reader = self::READERS[$size[2] ?? 0] ?? null;
        if ($reader === null || min($size[0], $size[1]) < 1 || $size[0] * $size[1] > self::PIXELS_MAX) {
            return null;
        }
        $image = @$reader($file);
        if ($image === false) {
            return null;
        }
        $turned = $size[2] === IMAGETYPE_JPEG ? self::upright($image, $file) : $image;
        $scale = min(1, self::SIDE_MAX / max(imagesx($turned), imagesy($turned)));
        return self::scaled($turned, (int) round(imagesx($turned) * $scale), (int) round(imagesy($turned) * $scale));
    }

    /** A copy of this size on a white ground. */
    public static function scaled(GdImage $image, int $width, int $height): GdImage
    {
        $copy = imagecreatetruecolor(max(1, $width), max(1, $height));
        imagefill($copy, 0, 0, 0xffffff);
        imagecopyresampled($copy, $image, 0, 0, 0, 0, imagesx($copy), imagesy($copy), imagesx($image), imagesy($image));
        return $copy;
    }

    /** [JPEG, width, height]: a tenth of what the decoded picture holds in memory, or less. */
    public static function kept(GdImage $image): array
    {
        return [self::encode($image), imagesx($image), imagesy($image)];
    }

    /** Writes the file so that nobody ever sees half of it. */
    public static function put(string $bytes, string $file): void
    {
        if (!is_dir(dirname($file))) {
            @mkdir(dirname($file), 0o775, true);
        }
        $temporary = $file . '.' . bin2hex(random_bytes(6));
        if (file_put_contents($temporary, $bytes) !== strlen($bytes) || !rename($temporary, $file)) {
            @unlink($temporary);
            throw new RuntimeException("cannot write $file");
        }
    }

    /** JPEG that shows while it arrives. */
    public static function encode(GdImage $image): string
    {
        imageinterlace($image, true);
        ob_start();
        imagejpeg($image, null, self::QUALITY);
        return (string) ob_get_clean();
    }

    /** Cameras note how they were held instead of turning the picture. */
    private static function upright(GdImage $image, string $file): GdImage
    {
        $exif = function_exists('exif_read_data') ? @exif_read_data($file) : false;
        $orientation = is_array($exif) ? ($exif['Orientation'] ?? 1) : 1;
        if (in_array($orientation, [2, 4, 5, 7], true)) {
            imageflip($image, $orientation === 4 ? IMG_FLIP_VERTICAL : IMG_FLIP_HORIZONTAL);
        }
        $degrees = match ($orientation) {
            3 => 180,
            5, 8 => 90,
            6, 7 => 270,
            default => 0,
        };
        return $degrees === 0 ? $image : (imagerotate($image, $degrees, 0) ?: $image);
    }
}
