<?php
// There is no such page, gallery or picture: a 404.
declare(strict_types=1);

final class NotFound extends RuntimeException
{
}
