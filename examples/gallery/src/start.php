<?php
// What every entry needs: classes by their file's name, and errors that go to the log, never to the reader.
declare(strict_types=1);

ini_set('display_errors', PHP_SAPI === 'cli' ? '1' : '0');
ini_set('log_errors', '1');

spl_autoload_register(static function (string $class): void {
    $file = __DIR__ . "/$class.php";
    if (preg_match('~^[A-Za-z]+$~D', $class) === 1 && is_file($file)) {
        require $file;
    }
});

// A warning is a mistake: it must not leave a half-written picture behind.
set_error_handler(static function (int $level, string $message, string $file, int $line): bool {
    if ((error_reporting() & $level) === 0) {
        return false;
    }
    throw new ErrorException($message, 0, $level, $file, $line);
});

/** Text as HTML. */
function e(string|int $text): string
{
    return htmlspecialchars((string) $text, ENT_QUOTES | ENT_SUBSTITUTE | ENT_HTML5, 'UTF-8');
}
