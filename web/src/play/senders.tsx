// The senders that race: chips in the colours of their curves.

import { AS_WRITTEN, MOST_SENDERS, setSenders, shownSender, useStore } from "../model/store";
import { styles } from "../model/style";

export function Senders() {
  const state = useStore();
  const known = state.keys?.transports ?? [];
  const names = state.senders.map((sender) => shownSender(sender, state.checked));
  const style = styles(names, known);
  const canChange = state.checked?.description.flows.some((flow) => flow.transport !== "udp") ?? false;
  const free = known.filter((name) => name !== "udp" && !names.includes(name));
  return (
    <section class="senders" aria-labelledby="senders-title">
      <h2 id="senders-title">Senders</h2>
      <ul>
        {state.senders.map((sender, index) => {
          const name = names[index] ?? sender;
          return (
            <li key={sender} class={`chip sender-${style.get(name) ?? 0}`} title={state.keys?.aboutTransport(name) || undefined}>
              <svg viewBox="0 0 22 6" aria-hidden="true"><path d="M0 3h22" /></svg>
              <span>{name}</span>
              {sender === AS_WRITTEN && name !== AS_WRITTEN && state.senders.length === 1 && <small>as written</small>}
              {state.senders.length > 1 && (
                <button type="button" aria-label={`Remove ${name}`} onClick={() => setSenders(state.senders.filter((one) => one !== sender))}>×</button>
              )}
            </li>
          );
        })}
        {canChange && state.senders.length < MOST_SENDERS && (
          <li>
            <select aria-label="Add a sender" value="" onChange={(event) => { const name = event.currentTarget.value; event.currentTarget.value = ""; if (name) setSenders([...state.senders, name]); }}>
              <option value="">+ add</option>
              {free.map((name) => <option key={name} value={name}>{name}</option>)}
            </select>
          </li>
        )}
      </ul>
    </section>
  );
}
