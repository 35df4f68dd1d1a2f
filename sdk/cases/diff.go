package cases

import "strings"

// diff shows want and got as one text, line by line: "-" before what was expected
// and is not there, "+" before what is there and was not expected.
func diff(want, got []string) string {
	// The longest common run of lines, by the table that everyone knows. A result
	// has tens of lines; one of thousands is not compared line by line.
	const most = 2000
	if len(want) > most || len(got) > most {
		return prefixed("- ", want) + prefixed("+ ", got)
	}
	common := make([][]int, len(want)+1)
	for i := range common {
		common[i] = make([]int, len(got)+1)
	}
	for i := len(want) - 1; i >= 0; i-- {
		for j := len(got) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); want[i] == got[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	var b strings.Builder
	i, j := 0, 0
	for i < len(want) || j < len(got) {
		switch {
		case i < len(want) && j < len(got) && want[i] == got[j]:
			b.WriteString("  " + want[i] + "\n")
			i, j = i+1, j+1
		case j == len(got) || i < len(want) && common[i+1][j] >= common[i][j+1]:
			b.WriteString("- " + want[i] + "\n")
			i++
		default:
			b.WriteString("+ " + got[j] + "\n")
			j++
		}
	}
	return b.String()
}

func prefixed(prefix string, lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(prefix + line + "\n")
	}
	return b.String()
}
