<?php
header("Content-Type: text/plain");
echo "never\n";
