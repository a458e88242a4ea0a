<?php
// Thumbnails, made when somebody first looks at them.
declare(strict_types=1);

final class Thumbnails
{
    /** The widths there are: a visitor may not ask for any other, and so cannot fill the disk. */
    public const WIDTHS = [320, 640];
    private const LIFE_SECONDS = 7 * 86400;

    public function __construct(private readonly Config $config)
    {
    }

    public static function url(int $width, int $picture): string
    {
        return "/thumbs/$width/$picture.jpg";
    }

    /** Makes the thumbnail and answers with it; keeps it if so configured. */
    public function send(int $width, int $picture): void
    {
        $source = "{$this->config->folder}/pictures/$picture.jpg";
        if (!in_array($width, self::WIDTHS, true) || !is_file($source)) {
            throw new NotFound();
        }
        $image = imagecreatefromjpeg($source) ?: throw new RuntimeException("cannot decode $source");
        $height = (int) round(imagesy($image) * $width / imagesx($image));
        $bytes = Pictures::encode(Pictures::scaled($image, $width, $height));
        if ($this->config->keepThumbnails) {
            Pictures::put($bytes, $this->config->folder . self::url($width, $picture));
        }
        header('Content-Type: image/jpeg');
        header('Content-Length: ' . strlen($bytes));
        header('Cache-Control: public, max-age=' . self::LIFE_SECONDS);
        header('X-Content-Type-Options: nosniff');
        if ($_SERVER['REQUEST_METHOD'] !== 'HEAD') {
            echo $bytes;
        }
    }
}
