<?php
header("Content-Type: text/plain");
echo "bob-trains got ", $_SERVER["REQUEST_URI"], "\n";
