fetch("/api/v2/orders");
