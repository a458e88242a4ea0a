<h1>Latest galleries</h1>
<?php if ($galleries === []): ?>
<p>There is none yet. <a href="/upload">Add the first.</a></p>
<?php endif ?>
<ul class="cards">
<?php foreach ($galleries as $gallery): ?>
<li><a href="/gallery/<?= e($gallery['id']) ?>">
<?php if ($gallery['cover'] !== null): ?>
<img src="<?= e(Thumbnails::url(320, $gallery['cover'])) ?>" srcset="<?= e(Thumbnails::url(320, $gallery['cover'])) ?> 320w, <?= e(Thumbnails::url(640, $gallery['cover'])) ?> 640w" sizes="(max-width: 40em) 94vw, 20rem" width="320" height="213" loading="lazy" alt="">
<?php endif ?>
<b><?= e($gallery['title']) ?></b>
<small><?= e(gmdate('j F Y', $gallery['created'])) ?> · <?= e($gallery['pictures']) ?> <?= $gallery['pictures'] === 1 ? 'picture' : 'pictures' ?></small>
</a></li>
<?php endforeach ?>
</ul>
<?php if ($pages > 1): ?>
<nav class="pages">
<?php if ($page > 1): ?><a class="button" href="/?page=<?= e($page - 1) ?>" rel="prev">Newer</a><?php endif ?>
<span>Page <?= e($page) ?> of <?= e($pages) ?></span>
<?php if ($page < $pages): ?><a class="button" href="/?page=<?= e($page + 1) ?>" rel="next">Older</a><?php endif ?>
</nav>
<?php endif ?>
