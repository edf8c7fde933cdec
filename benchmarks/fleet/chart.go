package fleet

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A chart is a grid of panels, one for each policy, all on the same axes.
const (
	columns     = 3
	chartWidth  = 11 * vg.Inch
	panelHeight = 2.15 * vg.Inch
	headHeight  = 0.75 * vg.Inch

	clip     = 6.0             // x normal; what is above is cut off, and said in words
	top      = 8.3             // of the axis: the words are above the curves
	before   = 5 * time.Second // of the run's time, what the chart shows
	after    = 30 * time.Second
	chartBin = 100 * time.Millisecond

	typeface = "Sans"
)

var (
	ink      = color.RGBA{R: 40, G: 44, B: 52, A: 255}
	bad      = color.RGBA{R: 178, G: 24, B: 43, A: 255}
	sent     = color.RGBA{R: 214, G: 96, B: 77, A: 255}
	served   = color.RGBA{R: 27, G: 120, B: 55, A: 255}
	outage   = color.RGBA{R: 236, G: 236, B: 236, A: 255}
	boundary = color.RGBA{R: 110, G: 110, B: 110, A: 255}
)

// WriteChart draws what reached the server over time, one panel for each result of one outage, as SVG.
func WriteChart(w io.Writer, results []*Result) error {
	rows := (len(results) + columns - 1) / columns
	height := headHeight + vg.Length(rows)*panelHeight
	canvas := vgsvg.New(chartWidth, height)
	page := draw.New(canvas)
	page.FillPolygon(color.White, rectangle(page.Rectangle))
	drawHead(page, results[0].Setup)
	plots, err := panels(results, rows)
	if err != nil {
		return err
	}
	body := draw.Crop(page, vg.Points(6), -vg.Points(10), vg.Points(6), -headHeight)
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: vg.Points(14), PadY: vg.Points(10)}
	for i, line := range plot.Align(plots, tiles, body) {
		for j, c := range line {
			if plots[i][j] != nil {
				plots[i][j].Draw(c)
			}
		}
	}
	var svg bytes.Buffer
	if _, err = canvas.WriteTo(&svg); err != nil {
		return err
	}
	// A reader without the font the layout was made with gets one like it.
	_, err = w.Write(bytes.ReplaceAll(svg.Bytes(), []byte("Liberation "+typeface), []byte("Liberation "+typeface+",Arial,sans-serif")))
	return err
}

func drawHead(page draw.Canvas, s Setup) {
	title := style(13, ink)
	title.Font.Weight = bold
	left := page.Min.X + vg.Points(12)
	page.FillText(title, vg.Point{X: left, Y: page.Max.Y - vg.Points(22)},
		fmt.Sprintf("A server fails for %.0f s by %s: what each policy sends it", s.During.Seconds(), s.Outage))
	y := page.Max.Y - vg.Points(40)
	for _, entry := range []struct {
		color color.Color
		text  string
		width vg.Length
	}{
		{sent, "requests that reach the server", 175},
		{served, "calls that succeed, by when they were made", 240},
		{outage, "outage", 60},
	} {
		box := vg.Rectangle{Min: vg.Point{X: left, Y: y}, Max: vg.Point{X: left + vg.Points(10), Y: y + vg.Points(8)}}
		page.FillPolygon(entry.color, rectangle(box))
		page.FillText(style(10, ink), vg.Point{X: left + vg.Points(15), Y: y}, entry.text)
		left += vg.Points(float64(entry.width))
	}
	page.FillText(style(10, ink), vg.Point{X: left, Y: y}, fmt.Sprintf("- - -  capacity, %.1f x normal.   %s.", capacity, s.Shape))
}

func rectangle(r vg.Rectangle) []vg.Point {
	return []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}}
}

func style(size float64, c color.Color) text.Style {
	s := plot.New().Title.TextStyle
	s.Font = fontOf(size)
	s.Color, s.XAlign, s.YAlign = c, draw.XLeft, draw.YBottom
	return s
}

const bold = 2

func fontOf(size float64) font.Font {
	f := plot.DefaultFont
	f.Variant, f.Size = typeface, vg.Points(size)
	return f
}

func panels(results []*Result, rows int) ([][]*plot.Plot, error) {
	grid := make([][]*plot.Plot, rows)
	for i := range grid {
		grid[i] = make([]*plot.Plot, columns)
	}
	for i, r := range results {
		p, err := r.panel()
		if err != nil {
			return nil, err
		}
		row, column := i/columns, i%columns
		if column == 0 {
			p.Y.Label.Text = "x normal load"
		}
		if i+columns >= len(results) {
			p.X.Label.Text = "seconds since the outage began"
		}
		grid[row][column] = p
	}
	return grid, nil
}

// panel is one policy.
func (r *Result) panel() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = r.Setup.Policy.Name
	p.Title.TextStyle.Font = fontOf(11)
	p.Title.TextStyle.Font.Weight = bold
	p.Title.Padding = vg.Points(3)
	p.X.Min, p.X.Max = -before.Seconds(), (r.Setup.During + after).Seconds()
	p.Y.Min, p.Y.Max = 0, top
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Tick.Label.Font, axis.Label.TextStyle.Font = fontOf(8.5), fontOf(8.5)
		axis.Padding = 0
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = ticks{step: 10, last: p.X.Max}, ticks{step: 1, last: clip}

	shade, err := plotter.NewPolygon(plotter.XYs{{X: 0, Y: 0}, {X: r.Setup.During.Seconds(), Y: 0}, {X: r.Setup.During.Seconds(), Y: top}, {X: 0, Y: top}})
	if err != nil {
		return nil, err
	}
	shade.Color, shade.LineStyle.Width = outage, 0
	arrivals, err := area(r.points(r.arrivals), sent)
	if err != nil {
		return nil, err
	}
	good, err := area(r.points(r.good), served)
	if err != nil {
		return nil, err
	}
	limit, err := plotter.NewLine(plotter.XYs{{X: p.X.Min, Y: capacity}, {X: p.X.Max, Y: capacity}})
	if err != nil {
		return nil, err
	}
	limit.Color, limit.Width, limit.Dashes = boundary, vg.Points(0.8), []vg.Length{vg.Points(3), vg.Points(3)}
	p.Add(shade, arrivals, good, limit)
	return p, r.annotate(p)
}

// annotate says in words what the panel shows.
func (r *Result) annotate(p *plot.Plot) error {
	lines := []struct {
		text string
		bad  bool
	}{
		{fmt.Sprintf("%.2f requests a call", r.Amplification), r.Amplification > maxAmplification},
		{fmt.Sprintf("busiest 100 ms: %.1f x", r.Peak), r.Peak > r.peakLimit()},
		{"99 % OK after: " + r.recovered(), r.Recovery == Never || r.Recovery > maxRecovery},
		{fmt.Sprintf("next 30 s: %s OK", percent(r.Later)), r.Later < minLater},
	}
	// The first belongs to the outage, the others to what follows.
	right := r.Setup.During.Seconds() + 1
	at := plotter.XYs{{X: 1, Y: 7.6}, {X: right, Y: 7.6}, {X: right, Y: 6.9}, {X: right, Y: 6.2}}
	for i, line := range lines {
		label, err := plotter.NewLabels(plotter.XYLabels{XYs: at[i : i+1], Labels: []string{line.text}})
		if err != nil {
			return err
		}
		label.TextStyle[0].Font, label.TextStyle[0].Color = fontOf(8.5), ink
		if line.bad {
			label.TextStyle[0].Color = bad
		}
		p.Add(label)
	}
	return nil
}

func area(points plotter.XYs, c color.Color) (*plotter.Line, error) {
	line, err := plotter.NewLine(points)
	if err != nil {
		return nil, err
	}
	line.FillColor, line.Width = c, 0
	return line, nil
}

// points are the counts of the charted time in units of the normal load, cut off at the top.
func (r *Result) points(sums []int64) plotter.XYs {
	const n = int(chartBin / bin)
	var points plotter.XYs
	normal := float64(r.Setup.Shape.Normal()) * chartBin.Seconds()
	for at := r.Setup.Before - before; at < r.Setup.Before+r.Setup.During+after; at += chartBin {
		i := int(at / bin)
		if i < 0 || i+n >= len(sums) {
			continue
		}
		points = appendStep(points, plotter.XY{X: (at - r.Setup.Before).Seconds(), Y: min(between(sums, i, i+n)/normal, clip)})
	}
	return points
}

// appendStep adds a step to a line, and leaves out what would not be seen: most of the time nothing changes.
func appendStep(line plotter.XYs, next plotter.XY) plotter.XYs {
	const visible = 0.02
	end := plotter.XY{X: next.X + chartBin.Seconds(), Y: next.Y}
	if n := len(line); n > 0 && math.Abs(line[n-1].Y-next.Y) < visible {
		line[n-1].X = end.X
		return line
	}
	return append(line, next, end)
}

// ticks are the multiples of a step.
type ticks struct{ step, last float64 }

func (t ticks) Ticks(from, _ float64) []plot.Tick {
	var marks []plot.Tick
	for v := 0.0; v <= t.last; v += t.step {
		if v >= from {
			marks = append(marks, plot.Tick{Value: v, Label: fmt.Sprint(v)})
		}
	}
	return marks
}
