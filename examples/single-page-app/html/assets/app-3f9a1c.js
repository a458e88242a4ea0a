document.getElementById("app").textContent = location.pathname;
