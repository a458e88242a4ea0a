<h1>New gallery</h1>
<?php if ($complaints !== []): ?>
<ul class="complaints" role="alert">
<?php foreach ($complaints as $complaint): ?>
<li><?= e($complaint) ?></li>
<?php endforeach ?>
</ul>
<?php endif ?>
<form method="post" action="/upload" enctype="multipart/form-data">
<input type="hidden" name="token" value="<?= e($token) ?>">
<label>Title <input name="title" maxlength="80" required value="<?= e($written['title']) ?>"></label>
<label>Story <textarea name="story" maxlength="2000" rows="4"><?= e($written['story']) ?></textarea></label>
<label>Pictures <input type="file" name="pictures[]" accept="image/jpeg,image/png,image/gif,image/webp" multiple required></label>
<p><small>Up to 12 JPEG, PNG, GIF or WebP pictures of at most 8 MB and 24 megapixels each.</small></p>
<button class="button">Publish</button>
</form>
