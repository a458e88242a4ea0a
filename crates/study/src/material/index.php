<?php
// A page of a small gallery: a moment of waiting as for a database, some work, a list.
$page = isset($_GET['page']) ? (int) $_GET['page'] : 0;
usleep(10000);
$seed = (string) $page;
for ($i = 0; $i < 120000; $i++) {
    $seed = md5($seed);
}
header('Content-Type: text/html; charset=utf-8');
echo "<!DOCTYPE html>\n<html><head><title>Gallery $page</title></head>\n<body><h1>Gallery $page</h1>\n<ul>\n";
for ($i = 0; $i < 100; $i++) {
    $seed = md5($seed);
    echo "<li><a href=\"/?page=$i\">", htmlspecialchars($seed), "</a></li>\n";
}
echo "</ul></body></html>\n";
