import { defineConfig } from 'vite';

/** The story page as files that any web server can serve. */
export default defineConfig({
  root: import.meta.dirname,
  base: './',
  build: { outDir: '../lib/stories', emptyOutDir: true, target: 'es2022' }
});
