/* SPDX-License-Identifier: Apache-2.0 */
/* Begins and ends. */
int main(void)
{
	return 0;
}
