<?php
// A new gallery as a visitor sent it: nothing in it is believed.
declare(strict_types=1);

final class Upload
{
    /** As in public/.user.ini. */
    private const FILES_MAX = 12;
    private const FILE_BYTES_MAX = 8 << 20;
    private const TITLE_MAX = 80;
    private const STORY_MAX = 2000;
    private const CAPTION_MAX = 80;

    /** What is wrong with it, for the visitor. */
    public array $complaints = [];
    private array $files = [];

    private function __construct()
    {
    }

    public static function received(FormGuard $guard): self
    {
        $upload = new self();
        // PHP drops a form that is larger than post_max_size whole, its token included.
        if ($_POST === [] && (int) ($_SERVER['CONTENT_LENGTH'] ?? 0) > 0) {
            $upload->complaints[] = 'This was too large. Please send fewer or smaller pictures.';
        } elseif (!$guard->accepts($_POST['token'] ?? null)) {
            $upload->complaints[] = 'The form was open for too long. Please send it again.';
        } else {
            $upload->checkTexts();
            $upload->checkFiles();
        }
        return $upload;
    }

    /** Adds the gallery and gives its id; null with a complaint if one of the files is no picture. */
    public function save(Store $store): ?int
    {
        if ($store->countGalleries() >= Store::GALLERIES_MAX) {
            $this->complaints[] = 'There is no room for more galleries.';
            return null;
        }
        $pictures = [];
        foreach ($this->files as [$name, $file]) {
            $image = Pictures::read($file);
            if ($image === null) {
                $this->complaints[] = "$name is no picture that can be shown here.";
            } else {
                $pictures[] = [self::caption($name), Pictures::kept($image)];
            }
        }
        return $this->complaints === []
            ? $store->add(self::text('title'), self::text('story'), $pictures, time())
            : null;
    }

    /** A text field: valid UTF-8 without control characters, or nothing. */
    public static function text(string $field): string
    {
        $text = $_POST[$field] ?? '';
        return is_string($text) ? self::clean($text) : '';
    }

    private static function clean(string $text): string
    {
        $text = str_replace(["\r\n", "\r"], "\n", $text);
        return trim((string) preg_replace('~[^\P{C}\n]+~u', '', $text));
    }

    private function checkTexts(): void
    {
        $title = self::text('title');
        if ($title === '' || str_contains($title, "\n") || self::length($title) > self::TITLE_MAX) {
            $this->complaints[] = 'A title is needed, of one line and at most ' . self::TITLE_MAX . ' characters.';
        }
        if (self::length(self::text('story')) > self::STORY_MAX) {
            $this->complaints[] = 'The story may have at most ' . self::STORY_MAX . ' characters.';
        }
    }

    private function checkFiles(): void
    {
        $sent = $_FILES['pictures'] ?? null;
        if (!is_array($sent) || !is_array($sent['error'])) {
            $this->complaints[] = 'At least one picture is needed.';
            return;
        }
        foreach ($sent['error'] as $index => $error) {
            if ($error === UPLOAD_ERR_NO_FILE) {
                continue;
            }
            // A form may nest its fields; ours does not.
            $name = is_string($sent['name'][$index]) ? self::clean(basename($sent['name'][$index])) : '';
            $file = $sent['tmp_name'][$index];
            if ($error === UPLOAD_ERR_INI_SIZE || $error === UPLOAD_ERR_FORM_SIZE) {
                $this->complaints[] = "$name is larger than " . (self::FILE_BYTES_MAX >> 20) . ' MB.';
            } elseif ($error !== UPLOAD_ERR_OK || !is_string($file) || !is_uploaded_file($file)) {
                $this->complaints[] = "$name did not arrive whole.";
            } elseif (filesize($file) > self::FILE_BYTES_MAX) {
                $this->complaints[] = "$name is larger than " . (self::FILE_BYTES_MAX >> 20) . ' MB.';
            } else {
                $this->files[] = [$name, $file];
            }
        }
        if ($this->files === [] && $this->complaints === []) {
            $this->complaints[] = 'At least one picture is needed.';
        }
        if (count($this->files) > self::FILES_MAX) {
            $this->complaints[] = 'At most ' . self::FILES_MAX . ' pictures at a time.';
        }
    }

    /** "IMG_2041.jpg" becomes "IMG 2041". */
    private static function caption(string $name): string
    {
        $caption = trim(strtr(pathinfo($name, PATHINFO_FILENAME), '_', ' '));
        $caption = (string) iconv_substr($caption, 0, self::CAPTION_MAX, 'UTF-8');
        return $caption === '' ? 'Picture' : $caption;
    }

    private static function length(string $text): int
    {
        return (int) iconv_strlen($text, 'UTF-8');
    }
}
