import { apiFunction } from '../lib/api/function.ts';
import { routeInput } from '../lib/api/inputs.ts';
import { readRoute } from '../lib/route/read-route.ts';
import { routeAnswer, routeProblem } from '../lib/route/route.ts';
import { apiDeps, routeSettings } from '../lib/wiring-api.ts';

const { db } = apiDeps();
const settings = routeSettings();
const WANTS = { eta: true, coming_retire: false };

/** GET /v1/route?user_id= */
export const handler = apiFunction({
  name: 'route',
  input: routeInput,
  async run({ input: { user_id }, header }) {
    return routeAnswer(await readRoute(db, user_id, WANTS), user_id, settings, header('if-none-match'));
  },
  onProblem: routeProblem,
});
