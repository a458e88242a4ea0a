<?php
echo "never\n";
