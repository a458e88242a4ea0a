void 1;
