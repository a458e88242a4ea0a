<?php
// Every request that is no file comes here (`try_files … /index.php?$query_string`), and the path decides.
declare(strict_types=1);

require dirname(__DIR__) . '/src/start.php';

$config = Config::fromEnvironment();
$method = $_SERVER['REQUEST_METHOD'] ?? 'GET';
$path = strstr($_SERVER['REQUEST_URI'] ?? '/', '?', true) ?: ($_SERVER['REQUEST_URI'] ?? '/');

try {
    respond($config, $method, $path);
} catch (NotFound) {
    Page::send('error', ['title' => 'Not found', 'message' => 'There is no such page.'], 404);
} catch (Throwable $problem) {
    error_log((string) $problem);
    Page::send('error', ['title' => 'Sorry', 'message' => 'Something went wrong here. Please try again later.'], 500);
}

function respond(Config $config, string $method, string $path): void
{
    $known = match (true) {
        in_array($path, ['/', '/index.php'], true) => index(...),
        $path === '/upload' => upload(...),
        preg_match('~^/gallery/([1-9][0-9]{0,8})$~D', $path, $found) === 1 => gallery(...),
        preg_match('~^/picture/([1-9][0-9]{0,8})$~D', $path, $found) === 1 => picture(...),
        preg_match('~^/thumbs/([0-9]{2,4})/([1-9][0-9]{0,8})\.jpg$~D', $path, $found) === 1 => thumbnail(...),
        default => throw new NotFound(),
    };
    $methods = $path === '/upload' ? ['GET', 'HEAD', 'POST'] : ['GET', 'HEAD'];
    if (!in_array($method, $methods, true)) {
        header('Allow: ' . implode(', ', $methods));
        Page::send('error', ['title' => 'Not so', 'message' => 'This page cannot do that.'], 405);
        return;
    }
    $known($config, array_map(intval(...), array_slice($found ?? [], 1)));
}

/** The latest galleries, a page of them. */
function index(Config $config): void
{
    $store = new Store($config);
    $pages = max(1, (int) ceil($store->countGalleries() / Store::GALLERIES_PER_PAGE));
    $page = filter_var($_GET['page'] ?? '1', FILTER_VALIDATE_INT, ['options' => ['min_range' => 1, 'max_range' => $pages]]);
    if ($page === false) {
        throw new NotFound();
    }
    Page::send('index', [
        'title' => 'Latest galleries',
        'galleries' => $store->latest($page),
        'page' => $page,
        'pages' => $pages,
    ]);
}

/** One gallery with all its pictures. */
function gallery(Config $config, array $numbers): void
{
    $store = new Store($config);
    $gallery = $store->gallery($numbers[0]) ?? throw new NotFound();
    Page::send('gallery', [
        'title' => $gallery['title'],
        'gallery' => $gallery,
        'pictures' => $store->pictures($gallery['id']),
        'others' => $store->others($gallery['id']),
    ]);
}

/** One picture, large, with the ones beside it. */
function picture(Config $config, array $numbers): void
{
    $picture = (new Store($config))->picture($numbers[0]) ?? throw new NotFound();
    Page::send('picture', ['title' => $picture['caption'], 'picture' => $picture]);
}

/** A thumbnail that is not on disk: nginx serves the others without asking. */
function thumbnail(Config $config, array $numbers): void
{
    (new Thumbnails($config))->send(...$numbers);
}

/** The form, and what was sent with it. */
function upload(Config $config): void
{
    $guard = new FormGuard($config);
    $complaints = [];
    if (!$config->uploads) {
        throw new NotFound();
    }
    if ($_SERVER['REQUEST_METHOD'] === 'POST') {
        $upload = Upload::received($guard);
        $complaints = $upload->complaints;
        $id = $complaints === [] ? $upload->save(new Store($config)) : null;
        if ($id !== null) {
            header("Location: /gallery/$id", true, 303);
            return;
        }
        $complaints = $upload->complaints;
    }
    Page::send('upload', [
        'title' => 'New gallery',
        'token' => $guard->token(),
        'complaints' => $complaints,
        'written' => ['title' => Upload::text('title'), 'story' => Upload::text('story')],
    ], $complaints === [] ? 200 : 422);
}
