<p><a href="/gallery/<?= e($picture['gallery']) ?>"><?= e($picture['title']) ?></a></p>
<figure>
<a href="/pictures/<?= e($picture['id']) ?>.jpg"><img src="/pictures/<?= e($picture['id']) ?>.jpg" width="<?= e($picture['width']) ?>" height="<?= e($picture['height']) ?>" alt="<?= e($picture['caption']) ?>"></a>
<figcaption><?= e($picture['caption']) ?></figcaption>
</figure>
<nav class="pages">
<?php if ($picture['previous'] !== null): ?><a class="button" href="/picture/<?= e($picture['previous']) ?>" rel="prev">Previous</a><?php endif ?>
<?php if ($picture['next'] !== null): ?><a class="button" href="/picture/<?= e($picture['next']) ?>" rel="next">Next</a><?php endif ?>
</nav>
