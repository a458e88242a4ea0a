<?php
// Fills the gallery with drawn landscapes: `php bin/make-pictures.php [GALLERIES [PICTURES]]` (12 galleries of 8 pictures).
// The same numbers give the same pictures. A gallery that has something in it already is left as it is.
declare(strict_types=1);

require dirname(__DIR__) . '/src/start.php';

const WIDTH = 1500;
const HEIGHT = 1000;
/** The first gallery's day, 3 May 2026, and the seconds from one to the next. */
const FIRST_DAY = 1777802400;
const APART = 6 * 86400 + 5000;

const PLACES = ['Skerry', 'Northern Fells', 'Saltmarsh', 'Old Harbour', 'Copper Valley', 'Seven Lakes', 'Long Island',
    'Heather Moor', 'Glass Bay', 'High Pass', 'Birch Country', 'Lighthouse Point', 'Red Canyon', 'Winter Coast'];
const WORDS = ['A walk along', 'Morning at', 'Three days in', 'Back to', 'Around', 'Last light over'];
const CAPTIONS = ['First light', 'Where the path turns', 'Before the rain', 'Looking back', 'Noon', 'The far shore',
    'An hour later', 'Wind from the west', 'On the way down', 'Stillness', 'The last bend', 'Evening'];
const STORY = "We set out early, with bread and a thermos, and came back late.\n"
    . 'The pictures are in the order in which they were taken; the best ones nobody had a camera at hand for.';

/** Sky above, sky at the horizon, the nearest ridge, the light. */
const PALETTES = [
    [[38, 70, 120], [246, 196, 150], [22, 34, 48], [255, 232, 190]],
    [[90, 150, 205], [214, 232, 240], [34, 74, 58], [255, 250, 225]],
    [[52, 34, 84], [240, 120, 92], [28, 18, 36], [255, 200, 130]],
    [[120, 140, 150], [226, 226, 220], [52, 62, 66], [250, 250, 246]],
    [[12, 22, 48], [70, 96, 140], [6, 12, 24], [236, 240, 255]],
    [[200, 130, 70], [252, 222, 160], [96, 42, 24], [255, 244, 210]],
];

[$galleries, $count] = array_map(
    static fn (string $number): int => filter_var($number, FILTER_VALIDATE_INT, ['options' => ['min_range' => 1, 'max_range' => 1000]])
        ?: exit("not a number from 1 to 1000: $number\n"),
    [$argv[1] ?? '12', $argv[2] ?? '8'],
);
$store = new Store(Config::fromEnvironment());
if ($store->countGalleries() > 0) {
    exit("there are galleries already\n");
}
for ($gallery = 0; $gallery < $galleries; $gallery++) {
    mt_srand(1000 + $gallery);
    $title = WORDS[mt_rand(0, count(WORDS) - 1)] . ' ' . PLACES[$gallery % count(PLACES)];
    $pictures = [];
    for ($number = 0; $number < $count; $number++) {
        $pictures[] = [CAPTIONS[$number % count(CAPTIONS)], Pictures::kept(landscape($gallery * 1000 + $number))];
    }
    $store->add($title, STORY, $pictures, FIRST_DAY + $gallery * APART);
}
echo "made $galleries galleries of $count pictures\n";

/** A sky, a sun or moon, and ridges one before the other, perhaps behind water. */
function landscape(int $seed): GdImage
{
    mt_srand($seed);
    $image = imagecreatetruecolor(WIDTH, HEIGHT);
    [$above, $horizon, $near, $light] = PALETTES[mt_rand(0, count(PALETTES) - 1)];
    for ($y = 0; $y < HEIGHT; $y++) {
        imageline($image, 0, $y, WIDTH, $y, colour($image, blend($above, $horizon, min(1, $y / (HEIGHT * 0.62)))));
    }
    sun($image, $light);
    $ridges = mt_rand(4, 6);
    for ($ridge = 1; $ridge <= $ridges; $ridge++) {
        ridge($image, HEIGHT * (0.3 + 0.42 * $ridge / $ridges), blend($horizon, $near, $ridge / $ridges), $ridge === $ridges);
    }
    if (mt_rand(0, 2) === 0) {
        water($image, $horizon);
    }
    grain($image);
    return $image;
}

function sun(GdImage $image, array $light): void
{
    $x = mt_rand((int) (WIDTH * 0.15), (int) (WIDTH * 0.85));
    $y = mt_rand((int) (HEIGHT * 0.12), (int) (HEIGHT * 0.4));
    $size = mt_rand(60, 130);
    for ($halo = 8; $halo >= 1; $halo--) {
        $wide = $size + $halo * $halo * 9;
        imagefilledellipse($image, $x, $y, $wide, $wide, colour($image, $light, 118));
    }
    imagefilledellipse($image, $x, $y, $size, $size, colour($image, $light));
}

/** The nearest one has trees on it. */
function ridge(GdImage $image, float $base, array $colour, bool $trees): void
{
    $waves = [];
    for ($octave = 0; $octave < 7; $octave++) {
        $waves[] = [mt_rand(60, 140) / 100 * 2 ** $octave * 2 / WIDTH, mt_rand(0, 628) / 100, 95 / 1.9 ** $octave];
    }
    $filled = colour($image, $colour);
    for ($x = 0; $x < WIDTH; $x++) {
        $y = $base;
        foreach ($waves as [$frequency, $phase, $height]) {
            $y += sin($x * $frequency * M_PI + $phase) * $height;
        }
        imageline($image, $x, (int) $y, $x, HEIGHT, $filled);
        if ($trees && mt_rand(0, 9) === 0) {
            tree($image, $x, (int) $y + 6, mt_rand(18, 70), $filled);
        }
    }
}

function tree(GdImage $image, int $x, int $foot, int $height, int $colour): void
{
    for ($storey = 0; $storey < 4; $storey++) {
        $wide = (int) ($height * (0.28 - 0.05 * $storey));
        $low = $foot - (int) ($height * 0.22 * $storey);
        imagefilledpolygon($image, [$x - $wide, $low, $x + $wide, $low, $x, $low - (int) ($height * 0.4)], $colour);
    }
}

/** What is above the shore, upside down and broken by ripples. */
function water(GdImage $image, array $tint): void
{
    $shore = (int) (HEIGHT * 0.8);
    $veil = colour($image, $tint, 96);
    for ($y = $shore; $y < HEIGHT; $y++) {
        $shift = (int) (sin($y * 0.9) * ($y - $shore) * 0.08);
        imagecopy($image, $image, $shift, $y, 0, max(0, 2 * $shore - $y - (int) (($y - $shore) * 0.6)), WIDTH, 1);
        imageline($image, 0, $y, WIDTH, $y, $veil);
    }
}

/** What a sensor adds; without it, files would be smaller than any photograph's. */
function grain(GdImage $image): void
{
    $marks = [imagecolorallocatealpha($image, 255, 255, 255, 112), imagecolorallocatealpha($image, 0, 0, 0, 112)];
    for ($mark = 0; $mark < 160_000; $mark++) {
        imagesetpixel($image, mt_rand(0, WIDTH - 1), mt_rand(0, HEIGHT - 1), $marks[$mark & 1]);
    }
}

function blend(array $from, array $to, float $part): array
{
    return array_map(static fn (int $a, int $b): int => (int) round($a + ($b - $a) * $part), $from, $to);
}

function colour(GdImage $image, array $colour, int $transparency = 0): int
{
    return imagecolorallocatealpha($image, $colour[0], $colour[1], $colour[2], $transparency);
}
