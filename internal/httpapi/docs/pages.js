// Fills in what this page knows of its reader: the address that it came from, and the API key that is typed into it. Nothing
// of it leaves the page.
'use strict';

const codes = [...document.querySelectorAll('main code')];
const texts = new Map(codes.map((code) => [code, code.textContent]));

function fill(key) {
  for (const [code, text] of texts) {
    code.textContent = text.replaceAll('https://hub.example', location.origin).replaceAll('hub_sk_…', key || 'hub_sk_…');
  }
}

for (const place of document.querySelectorAll('[data-fill]')) place.hidden = false;
const field = document.getElementById('api-key');
if (field) field.addEventListener('input', () => fill(field.value.trim()));
fill('');

if (navigator.clipboard) {
  for (const block of document.querySelectorAll('main pre')) {
    const line = document.createElement('div'), button = document.createElement('button');
    line.className = 'line';
    block.replaceWith(line);
    button.type = 'button';
    button.textContent = 'Copy';
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(block.textContent);
      button.textContent = 'Copied';
      setTimeout(() => { button.textContent = 'Copy'; }, 2000);
    });
    line.append(block, button);
  }
}
