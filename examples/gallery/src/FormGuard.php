<?php
// Forms are only taken from our own pages: what the form says must match what only the visitor's browser holds.
declare(strict_types=1);

final class FormGuard
{
    private const COOKIE = 'gallery_form';
    private const SECRET_BYTES = 32;

    public function __construct(private readonly Config $config)
    {
    }

    /** The value for the form; gives the browser its half if it has none. */
    public function token(): string
    {
        $half = $this->browserHalf();
        if ($half === null) {
            $half = bin2hex(random_bytes(16));
            setcookie(self::COOKIE, $half, [
                'path' => '/upload',
                'httponly' => true,
                'samesite' => 'Strict',
                'secure' => ($_SERVER['HTTPS'] ?? '') === 'on',
            ]);
        }
        return $this->sign($half);
    }

    /** Whether the form came from one of our pages. */
    public function accepts(mixed $token): bool
    {
        $half = $this->browserHalf();
        return $half !== null && is_string($token) && hash_equals($this->sign($half), $token);
    }

    private function browserHalf(): ?string
    {
        $cookie = $_COOKIE[self::COOKIE] ?? null;
        return is_string($cookie) && preg_match('~^[0-9a-f]{32}$~D', $cookie) === 1 ? $cookie : null;
    }

    private function sign(string $half): string
    {
        return hash_hmac('sha256', $half, $this->secret());
    }

    /** Made once, by whoever comes first, and known to nobody outside. */
    private function secret(): string
    {
        $file = "{$this->config->folder}/secret";
        if (!is_file($file)) {
            $temporary = $file . '.' . bin2hex(random_bytes(6));
            touch($temporary);
            chmod($temporary, 0o600);
            file_put_contents($temporary, random_bytes(self::SECRET_BYTES));
            // `link` fails where the file is there by now: then that one counts.
            @link($temporary, $file);
            unlink($temporary);
        }
        $secret = file_get_contents($file);
        return strlen((string) $secret) === self::SECRET_BYTES ? $secret : throw new RuntimeException("$file is damaged");
    }
}
