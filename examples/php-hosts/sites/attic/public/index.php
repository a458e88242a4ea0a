<?php
header("Content-Type: text/plain");
echo "attic got ", $_SERVER["REQUEST_URI"], "\n";
