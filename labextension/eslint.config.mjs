import tseslint from 'typescript-eslint';

export default tseslint.config(
  { ignores: ['node_modules', 'lib', '.yarn', 'src/generated.ts'] },
  tseslint.configs.recommended,
  {
    rules: {
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/no-explicit-any': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      '@typescript-eslint/no-unused-expressions': ['error', { allowTernary: true, allowShortCircuit: true }],
      '@typescript-eslint/no-namespace': 'off',
      eqeqeq: 'error',
      'no-console': ['error', { allow: ['error'] }],
      'no-restricted-properties': ['error', { property: 'innerHTML', message: 'Names come from users: use textContent.' }]
    }
  }
);
