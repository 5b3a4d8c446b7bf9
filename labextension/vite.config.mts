import { defineConfig } from 'vite';

/** The kit: one plain ES module and its style sheet, for notebook cells and reports. */
export default defineConfig({
  build: {
    outDir: '../workbench/viz/static/kit',
    emptyOutDir: true,
    rolldownOptions: { output: { minify: true } },
    target: 'es2022',
    lib: { entry: 'src/kit.ts', formats: ['es'], fileName: () => 'kit.js', cssFileName: 'kit' }
  }
});
