<?php
// In the place of WordPress: says what it was asked for.
header('Content-Type: text/plain');
echo "the front page's script got ", $_SERVER['REQUEST_URI'], "\n";
