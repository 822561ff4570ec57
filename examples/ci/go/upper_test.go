// SPDX-License-Identifier: Apache-2.0
package upper

import "testing"

func TestUpper(t *testing.T) {
	for i := 0; i < 1000; i++ {
		if Upper("a quiet line") != "A QUIET LINE" {
			t.Fatal(i)
		}
	}
}
