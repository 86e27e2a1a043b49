export { exportHeads } from './export.ts';
export { verifyChains } from './verify-chains.ts';
export { verifyHeads } from './verify-heads.ts';
