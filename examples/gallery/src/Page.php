<?php
// A page: a template of templates/ inside the layout, with the headers that every page has.
declare(strict_types=1);

final class Page
{
    private const POLICY = "default-src 'none'; img-src 'self'; style-src 'self'; form-action 'self'; "
        . "base-uri 'none'; frame-ancestors 'none'";

    /** Works the template out before anything is sent, so that a mistake in it can still become an error page. */
    public static function send(string $template, array $values, int $status = 200): void
    {
        $body = self::fill($template, $values);
        $page = self::fill('layout', ['title' => $values['title'], 'body' => $body]);
        http_response_code($status);
        header('Content-Type: text/html; charset=utf-8');
        header('Content-Length: ' . strlen($page));
        header('Content-Security-Policy: ' . self::POLICY);
        header('Referrer-Policy: same-origin');
        header('X-Content-Type-Options: nosniff');
        if (($_SERVER['REQUEST_METHOD'] ?? 'GET') !== 'HEAD') {
            echo $page;
        }
    }

    private static function fill(string $template, array $values): string
    {
        ob_start();
        try {
            (static function () use ($template, $values): void {
                extract($values, EXTR_SKIP);
                require dirname(__DIR__) . "/templates/$template.php";
            })();
        } finally {
            $text = ob_get_clean();
        }
        return (string) $text;
    }
}
