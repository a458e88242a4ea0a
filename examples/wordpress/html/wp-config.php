<?php
// Passwords of the database would stand here.
