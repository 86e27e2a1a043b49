import { FakeQueue } from '../fakes/queue.ts';
import { describeQueue } from './queue.ts';

const queue = new FakeQueue();

describeQueue('the fake', {
  async setup() {
    return {
      queue,
      async receive(name) {
        const mine = queue.messages.filter((message) => message.queue === name);
        for (const message of mine) queue.messages.splice(queue.messages.indexOf(message), 1);
        return mine.map(({ operation_id }) => JSON.stringify({ operation_id }));
      },
    };
  },
  async teardown() {},
});
