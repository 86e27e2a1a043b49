// All parts, in the order in which they are shown.
import type { Part } from '../context.ts';
import { APP_PARTS } from './app.ts';
import { BACKEND_PARTS } from './backends.ts';
import { KUBERNETES_PARTS } from './kubernetes.ts';

/** See the head of this file. */
export const ALL_PARTS: readonly Part[] = [...KUBERNETES_PARTS, ...BACKEND_PARTS, ...APP_PARTS];
