import { createSecretKey } from 'node:crypto';
import type { TokenRules } from './api/token.ts';
import { loadConfig, required } from './config.ts';
import { once } from './once.ts';

/** What the authorizer accepts; it reads no registry. @throws Error that names the variable that is missing. */
export const tokenRules = once((): TokenRules => {
  const settings = loadConfig(process.env);
  return {
    key: createSecretKey(required(settings, 'WARREN_JWT_SECRET'), 'utf8'),
    issuer: settings.WARREN_JWT_ISSUER,
    audience: settings.WARREN_JWT_AUDIENCE,
  };
});
