<h1><?= e($title) ?></h1>
<p><?= e($message) ?></p>
<p><a href="/">To the galleries</a></p>
