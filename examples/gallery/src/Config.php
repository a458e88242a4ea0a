<?php
// What the operator may set, by `fastcgi_param` or in the environment of the PHP processes.
declare(strict_types=1);

final class Config
{
    private function __construct(
        /** The folder for the database, pictures and thumbnails; PHP must be able to write to it. */
        public readonly string $folder,
        /** Whether a thumbnail is kept once it was made, so that the web server serves it from then on. */
        public readonly bool $keepThumbnails,
        /** Whether visitors may add galleries. */
        public readonly bool $uploads,
    ) {
    }

    public static function fromEnvironment(): self
    {
        return new self(
            self::value('GALLERY_VAR', dirname(__DIR__) . '/var'),
            self::choice('GALLERY_THUMBS', ['keep' => true, 'fly' => false], 'keep'),
            self::choice('GALLERY_UPLOADS', ['on' => true, 'off' => false], 'on'),
        );
    }

    /** What a client sends is named HTTP_…, so these names are the operator's alone. */
    private static function value(string $name, string $otherwise): string
    {
        $value = $_SERVER[$name] ?? getenv($name);
        return is_string($value) && $value !== '' ? $value : $otherwise;
    }

    private static function choice(string $name, array $choices, string $otherwise): bool
    {
        $value = self::value($name, $otherwise);
        return $choices[$value] ?? throw new DomainException("$name: \"$value\" is none of " . implode(', ', array_keys($choices)));
    }
}
