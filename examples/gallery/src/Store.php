<?php
// Galleries and their pictures: an SQLite database, and a file for each picture beside it.
declare(strict_types=1);

final class Store
{
    public const GALLERIES_PER_PAGE = 12;
    /** More galleries than this, and the form is closed. */
    public const GALLERIES_MAX = 5000;
    private const OTHERS = 4;
    /** A reader waits this long for a writer. */
    private const BUSY_SECONDS = 5;
    private const VERSION = 1;

    private readonly PDO $database;
    private readonly string $folder;

    public function __construct(Config $config)
    {
        $this->folder = $config->folder;
        if (!is_dir($this->folder)) {
            // Another request may be making it, too.
            @mkdir($this->folder, 0o775, true);
        }
        $this->database = new PDO("sqlite:{$this->folder}/gallery.sqlite", options: [
            PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
            PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC,
            PDO::ATTR_TIMEOUT => self::BUSY_SECONDS,
        ]);
        $this->database->exec('PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL');
        if ((int) $this->database->query('PRAGMA user_version')->fetchColumn() < self::VERSION) {
            $this->create();
        }
    }

    private function create(): void
    {
        // Readers and a writer do not wait for each other.
        $this->database->exec('PRAGMA journal_mode = WAL');
        $this->database->exec('BEGIN IMMEDIATE');
        $this->database->exec(<<<'SQL'
            CREATE TABLE IF NOT EXISTS galleries (
                id      INTEGER PRIMARY KEY,
                title   TEXT NOT NULL,
                story   TEXT NOT NULL,
                created INTEGER NOT NULL
            );
            CREATE TABLE IF NOT EXISTS pictures (
                id      INTEGER PRIMARY KEY,
                gallery INTEGER NOT NULL REFERENCES galleries (id) ON DELETE CASCADE,
                caption TEXT NOT NULL,
                width   INTEGER NOT NULL,
                height  INTEGER NOT NULL
            );
            CREATE INDEX IF NOT EXISTS latest ON galleries (created DESC, id DESC);
            CREATE INDEX IF NOT EXISTS pictures_of ON pictures (gallery, id);
            SQL);
        $this->database->exec('PRAGMA user_version = ' . self::VERSION);
        $this->database->exec('COMMIT');
    }

    public function countGalleries(): int
    {
        return (int) $this->database->query('SELECT count(*) FROM galleries')->fetchColumn();
    }

    /** A page of galleries, the newest first, each with its number of pictures and its first one. */
    public function latest(int $page): array
    {
        return $this->rows(
            'SELECT g.id, g.title, g.created, count(p.id) AS pictures, min(p.id) AS cover
             FROM (SELECT * FROM galleries ORDER BY created DESC, id DESC LIMIT ? OFFSET ?) g
             LEFT JOIN pictures p ON p.gallery = g.id
             GROUP BY g.id ORDER BY g.created DESC, g.id DESC',
            [self::GALLERIES_PER_PAGE, ($page - 1) * self::GALLERIES_PER_PAGE],
        );
    }

    public function gallery(int $id): ?array
    {
        return $this->rows('SELECT id, title, story, created FROM galleries WHERE id = ?', [$id])[0] ?? null;
    }

    public function pictures(int $gallery): array
    {
        return $this->rows('SELECT id, caption, width, height FROM pictures WHERE gallery = ? ORDER BY id', [$gallery]);
    }

    /** A few of the newest galleries but this one. */
    public function others(int $gallery): array
    {
        return $this->rows(
            'SELECT g.id, g.title, (SELECT min(id) FROM pictures WHERE gallery = g.id) AS cover
             FROM galleries g WHERE g.id <> ? ORDER BY g.created DESC, g.id DESC LIMIT ?',
            [$gallery, self::OTHERS],
        );
    }

    public function picture(int $id): ?array
    {
        return $this->rows(
            'SELECT p.id, p.caption, p.width, p.height, p.gallery, g.title,
                    (SELECT max(id) FROM pictures WHERE gallery = p.gallery AND id < p.id) AS previous,
                    (SELECT min(id) FROM pictures WHERE gallery = p.gallery AND id > p.id) AS next
             FROM pictures p JOIN galleries g ON g.id = p.gallery WHERE p.id = ?',
            [$id],
        )[0] ?? null;
    }

    /**
     * Adds a gallery whole or not at all. Each picture is [caption, what Pictures::kept gave]; gives the gallery's id.
     */
    public function add(string $title, string $story, array $pictures, int $created): int
    {
        $written = [];
        $this->database->exec('BEGIN IMMEDIATE');
        try {
            $this->rows('INSERT INTO galleries (title, story, created) VALUES (?, ?, ?)', [$title, $story, $created]);
            $gallery = (int) $this->database->lastInsertId();
            foreach ($pictures as [$caption, [$bytes, $width, $height]]) {
                $this->rows(
                    'INSERT INTO pictures (gallery, caption, width, height) VALUES (?, ?, ?, ?)',
                    [$gallery, $caption, $width, $height],
                );
                $file = "{$this->folder}/pictures/{$this->database->lastInsertId()}.jpg";
                $written[] = $file;
                Pictures::put($bytes, $file);
            }
            $this->database->exec('COMMIT');
        } catch (Throwable $problem) {
            $this->database->exec('ROLLBACK');
            foreach ($written as $file) {
                @unlink($file);
            }
            throw $problem;
        }
        return $gallery;
    }

    private function rows(string $statement, array $values): array
    {
        $prepared = $this->database->prepare($statement);
        foreach ($values as $index => $value) {
            $prepared->bindValue($index + 1, $value, is_int($value) ? PDO::PARAM_INT : PDO::PARAM_STR);
        }
        $prepared->execute();
        return $prepared->fetchAll();
    }
}
