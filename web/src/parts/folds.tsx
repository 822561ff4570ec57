// SPDX-License-Identifier: Apache-2.0
// Which frames call trees leave out or merge, as checkboxes.
import { importsModules } from '../model/frames';
import { saved } from '../model/source';
import { set, value } from '../model/state';
import type { FlameName } from '../model/types';

/** The key in the address, its value when checked, and the label. */
type Fold = readonly [key: string, on: string, label: string];

const RECURSION: Fold = ['fold', '1', 'Fold recursion'];
const LIBRARIES: Fold = ['fold-libraries', '1', 'Fold libraries'];
const IMPORTS: Fold = ['fold-imports', 'yes', 'Fold imports'];

/** Those that could change a tree with these names. */
export function Folds({ names }: { names: readonly FlameName[] }) {
	const folds = [RECURSION];
	if (value('fold-libraries') || (!saved.value && names.some((name) => name.own))) folds.push(LIBRARIES);
	if (value('fold-imports') || names.some(importsModules)) folds.push(IMPORTS);
	return (
		<>
			{folds.map(([key, on, label]) => (
				<label class="check" key={key}>
					<input
						type="checkbox"
						checked={value(key) === on}
						onChange={(event) => set({ [key]: event.currentTarget.checked ? on : null, zoom: null, node: null })}
					/>
					{label}
				</label>
			))}
		</>
	);
}
