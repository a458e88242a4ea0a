<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title><?= e($title) ?> · Gallery</title>
<link rel="stylesheet" href="/style.css">
<link rel="icon" href="/icon.svg" type="image/svg+xml">
</head>
<body>
<header><a class="name" href="/">Gallery</a><a class="button" href="/upload">New gallery</a></header>
<main>
<?= $body ?>
</main>
<footer>Plain PHP on SQLite, served with an nginx.conf.</footer>
</body>
</html>
