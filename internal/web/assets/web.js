// The pages' script: it sends actions, shows what came of them, reads pages again and shows times in the reader's zone.
'use strict';

const status = document.getElementById('status');
const language = document.documentElement.lang === 'pt' ? 'pt-BR' : 'en-GB';
const minute = { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' };
const moments = new Map(); // one formatter for each set of options
const whole = new Intl.DateTimeFormat(language, { dateStyle: 'full', timeStyle: 'long' });

// moment is a time as people write it; the year is left out while it goes on.
function moment(at, seconds) {
  const year = at.getFullYear() !== new Date().getFullYear();
  const key = year + '/' + seconds;
  if (!moments.has(key)) moments.set(key, new Intl.DateTimeFormat(language, { ...minute, ...(year && { year: 'numeric' }), ...(seconds && { second: '2-digit' }) }));
  return moments.get(key).format(at);
}

// local shows times in the reader's zone, the machine-readable one next to it, and has links back keep a list's filters.
function local(root) {
  for (const time of root.querySelectorAll('time[datetime]')) {
    const at = new Date(time.dateTime);
    time.textContent = moment(at, !('minute' in time.dataset));
    time.title = whole.format(at);
  }
  for (const bar of root.querySelectorAll('title[data-at]')) {
    bar.textContent = moment(new Date(bar.dataset.at), false) + ': ' + bar.dataset.text;
  }
  for (const back of root.querySelectorAll('a.back')) if (document.referrer.split('?')[0] === back.href) back.href = document.referrer;
  for (const field of root.querySelectorAll('input[type=datetime-local][data-utc]')) {
    if (field.dataset.utc && !field.dataset.shown) {
      const at = new Date(field.dataset.utc);
      field.value = field.defaultValue = new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
      field.dataset.shown = 'yes';
    }
  }
}

// fields are a form's values; local times become what the service reads.
function fields(form, button) {
  const values = new URLSearchParams(new FormData(form, button));
  for (const field of form.querySelectorAll('input[type=datetime-local]')) {
    if (field.value) values.set(field.name, new Date(field.value).toISOString());
  }
  return values;
}

let silence;

// say shows a message to everybody, screen readers included; an error stays.
function say(text, failed) {
  clearTimeout(silence);
  status.textContent = '';
  status.className = failed ? 'status failed' : 'status';
  if (!text) return;
  setTimeout(() => { status.textContent = text; }, 30); // a change, also when the text is the same as before
  if (!failed) silence = setTimeout(() => { status.textContent = ''; }, 12000);
}

// place puts a new version of the page's content in, and keeps the focus where it was and what was typed outside the form
// that was sent. The page of another supplier, as whom the browser has been signed in since, is loaded whole.
function place(text, sent) {
  const page = new DOMParser().parseFromString(text, 'text/html');
  if (page.body.dataset.of !== document.body.dataset.of) { location.reload(); return; }
  const main = document.getElementById('main'), next = page.getElementById('main');
  if (!next) return;
  const tools = [document, page].map((of) => of.querySelector('.tools')), active = document.activeElement;
  const typed = [...main.querySelectorAll(':is(input, select, textarea)[id]')].filter((field) => field.form !== sent && changed(field));
  main.replaceChildren(...next.childNodes);
  document.title = page.title;
  if (!tools[0].isEqualNode(tools[1])) tools[0].replaceWith(tools[1]);
  local(main);
  for (const { id, value } of typed) {
    const field = document.getElementById(id);
    if (field) field.value = value;
  }
  if (!active.isConnected) (document.getElementById(active.id) || main).focus({ preventScroll: true });
}

// read reads the page again and adds the result of an action to it, or to the old one while it cannot be read. A result
// with an id is shown once: it stays until another one with this id takes its place.
async function read(result, sent) {
  const answer = await fetch(location.href, { headers: { Accept: 'text/html' } });
  if (answer.status === 401) { location.reload(); return; }
  const text = await answer.text(), once = document.querySelectorAll('[data-result] > [id]');
  if (answer.ok) place(text, sent);
  const slot = document.querySelector('[data-result]');
  if (slot && result) slot.innerHTML = result;
  for (const shown of once) if (slot && !document.getElementById(shown.id)) slot.append(shown);
  if (slot) local(slot);
}

// changed reports whether the reader has changed a field.
function changed(field) {
  if (field.matches('[type=checkbox]')) return field.checked !== field.defaultChecked;
  if (!field.matches('select')) return field.value !== field.defaultValue;
  const options = [...field.options];
  return field.selectedIndex !== Math.max(options.findIndex((option) => option.defaultSelected), 0);
}

// ask shows a dialog; its form is an action itself, and may be followed by the one that asked.
function ask(text, again) {
  for (const old of document.querySelectorAll('dialog')) old.remove();
  document.body.insertAdjacentHTML('beforeend', text);
  const dialog = document.querySelector('dialog');
  dialog.again = again;
  dialog.addEventListener('close', () => dialog.remove());
  dialog.showModal();
}

async function act(form, button) {
  if (form.dataset.busy) return;
  form.dataset.busy = 'yes';
  form.setAttribute('aria-busy', 'true');
  say('');
  try {
    const dialog = form.closest('dialog');
    const answer = await fetch(button && button.hasAttribute('formaction') ? button.formAction : form.action, { method: 'POST', body: fields(form, button), headers: { 'X-Page-Request': '1', 'X-Page-Of': document.body.dataset.of, Accept: 'application/json' } });
    const outcome = await answer.json();
    if (outcome.dialog) { ask(outcome.dialog, () => act(form, button)); return; }
    const said = outcome.message || outcome.detail || document.body.dataset.offline;
    if (dialog && !answer.ok) { dialog.querySelector('[role=alert]').textContent = said; return; }
    if (dialog) { dialog.close(); if ('again' in form.dataset) { dialog.again(); return; } }
    if (outcome.address) { location.assign(outcome.address); return; }
    if (answer.ok) await read(outcome.result, form); // after a failure what was typed stays
    say(said, !answer.ok);
  } catch {
    say(document.body.dataset.offline, true);
  } finally {
    delete form.dataset.busy;
    form.removeAttribute('aria-busy');
  }
}

document.addEventListener('submit', (event) => {
  const form = event.target;
  if (form.hasAttribute('data-action')) {
    event.preventDefault();
    act(form, event.submitter);
  } else if (form.method === 'get') {
    event.preventDefault();
    const values = fields(form, event.submitter);
    for (const [name, value] of [...values]) if (value === '') values.delete(name);
    const query = values.toString();
    location.assign(form.action.split('?')[0] + (query ? '?' + query : ''));
  }
});

document.addEventListener('change', (event) => {
  const all = event.target.closest('input[data-all]');
  if (all) for (const box of all.form.querySelectorAll('input[name=id]')) box.checked = all.checked;
});

document.addEventListener('click', (event) => {
  if (event.target.closest('[data-close]')) event.target.closest('dialog').close();
});

document.addEventListener('click', async (event) => {
  const button = event.target.closest('[data-copy]');
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
    say(document.body.dataset.copied);
  } catch { // not allowed here: the text is selected for the reader's own keys
    getSelection().selectAllChildren(source);
  }
});

// follow reads a page again while something on it is under way; never while its reader works in it, and only after the last answer.
async function follow() {
  const live = document.querySelector('[data-live]');
  const seconds = live ? Number(live.dataset.live) : 5;
  await new Promise((done) => setTimeout(done, seconds * 1000));
  const active = document.activeElement;
  const working = active && active.matches('input, select, textarea, #main :focus-visible:not([id])') || document.querySelector('[aria-busy=true], dialog')
    || [...document.querySelectorAll('#main :is(input, select, textarea)')].some(changed);
  if (live && !working && !document.hidden && !document.querySelector('[data-result] > *') && getSelection().isCollapsed) {
    try { await read(); } catch { /* the next one may come through */ }
  }
  follow();
}

local(document);
document.querySelector('.top nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
follow();
