// SPDX-License-Identifier: Apache-2.0
// A number and, if it is an estimate, its standard error: every number on the page is shown by this.
import { change, exact, quantity, spread, type Unit } from '../model/units';

/** The error of a number, which the report has under its name plus "_error"; 0: it is exact. */
export function errorOf(row: object | undefined, key: string): number {
	const error = (row as Record<string, unknown> | undefined)?.[`${key}_error`];
	return typeof error === 'number' ? error : 0;
}

/** A number that only bounds the true one. */
export type Bound = 'most' | 'least' | undefined;

/** The number in full, for tooltips. */
export function hintOf(value: number, unit: Unit, error: number, bound?: Bound): string {
	if (bound) return `at ${bound} ${exact(value, unit)}`;
	return error ? `${exact(value, unit)} ± ${exact(error, unit)} (standard error)` : exact(value, unit);
}

interface AmountProps {
	value: number;
	unit: Unit;
	error?: number;
	signed?: boolean;
	bound?: Bound;
}

export function Amount({ value, unit, error = 0, signed = false, bound }: AmountProps) {
	const text = (bound ? (bound === 'most' ? '≤ ' : '≥ ') : '') + (signed ? change(value, unit) : quantity(value, unit));
	if (!error) return <>{text}</>;
	return (
		<>
			{text} <small class="error">{spread(error, value, signed ? unit : undefined)}</small>
		</>
	);
}

/** The same as plain text, for labels and drawings. */
export function amountText(value: number, unit: Unit, error: number, signed = false): string {
	const text = signed ? change(value, unit) : quantity(value, unit);
	return error ? `${text} ${spread(error, value, signed ? unit : undefined)}` : text;
}

/** Extra pixels for a column of numbers with errors. */
export const ERROR_WIDTH = 52;
