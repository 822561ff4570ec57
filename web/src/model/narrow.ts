// SPDX-License-Identifier: Apache-2.0
// Whether the screen is as narrow as a telephone's: the width is that of layout.css.
import { signal } from '@preact/signals';

const asked = matchMedia('(max-width: 600px)');

export const narrow = signal(asked.matches);

asked.addEventListener('change', (event) => {
	narrow.value = event.matches;
});
