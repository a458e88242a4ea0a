<?php
header("Content-Type: text/plain");
echo "garden got ", $_SERVER["REQUEST_URI"], "\n";
