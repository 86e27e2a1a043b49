// One assistant of the double in a process of its own, so that its memory is not taken for Warren's.
// HOST TOKEN FOLDER: listens on HOST:8088, says "ready", ends with its parent.
import { join } from 'node:path';
import { Assistant } from '../../../scripts/stack/double/assistant.ts';

const [host = '', token = '', folder = ''] = process.argv.slice(2);
const at = (name: string) => join(folder, name);
const assistant = new Assistant(host, token, {
  working: at('working'),
  secret: at('secret'),
  backups: at('backups'),
});
await assistant.listen();
assistant.isStarted = true;
process.on('disconnect', () => process.exit(0));
process.send?.('ready');
