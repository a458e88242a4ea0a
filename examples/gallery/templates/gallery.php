<h1><?= e($gallery['title']) ?></h1>
<p class="date"><?= e(gmdate('j F Y', $gallery['created'])) ?></p>
<p><?= nl2br(e($gallery['story'])) ?></p>
<ul class="pictures">
<?php foreach ($pictures as $picture): ?>
<li><a href="/picture/<?= e($picture['id']) ?>"><img src="<?= e(Thumbnails::url(320, $picture['id'])) ?>" srcset="<?= e(Thumbnails::url(320, $picture['id'])) ?> 320w, <?= e(Thumbnails::url(640, $picture['id'])) ?> 640w" sizes="(max-width: 40em) 47vw, 16rem" width="<?= e($picture['width']) ?>" height="<?= e($picture['height']) ?>" loading="lazy" alt="<?= e($picture['caption']) ?>"></a></li>
<?php endforeach ?>
</ul>
<?php if ($others !== []): ?>
<h2>More galleries</h2>
<ul class="others">
<?php foreach ($others as $other): ?>
<li><a href="/gallery/<?= e($other['id']) ?>"><?php if ($other['cover'] !== null): ?><img src="<?= e(Thumbnails::url(320, $other['cover'])) ?>" width="96" height="64" loading="lazy" alt=""><?php endif ?><?= e($other['title']) ?></a></li>
<?php endforeach ?>
</ul>
<?php endif ?>
