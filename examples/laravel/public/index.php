<?php
// In the place of the framework: one route.
header('Content-Type: application/json');
$path = strtok($_SERVER['REQUEST_URI'], '?');
http_response_code($path === '/missing' ? 404 : 200);
echo json_encode(['path' => $path, 'query' => $_GET], JSON_UNESCAPED_SLASHES), "\n";
